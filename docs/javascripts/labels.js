// What the theme leaves to be done for people who use a keyboard or a screen reader.
const mend = () => {
  // The copy button of every block is a landmark of its own; a screen reader would list them all.
  document.querySelectorAll("nav.md-code__nav:not([role])").forEach(one => one.setAttribute("role", "presentation"));
  // Wide tables and long lines scroll; without a mouse only what can be focused does.
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex]), pre > code:not([tabindex])").forEach(one => { one.tabIndex = 0; });
};
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
mend();
