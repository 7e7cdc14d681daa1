// A browser starts no worker for a page that was opened from a folder. There the search runs in a hidden frame instead, so that the
// site works without a server. Pages that come from a server keep the browser's own workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = this.onerror = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc = `<script>window.postMessage = data => parent.dispatchEvent(new CustomEvent("from-search", { detail: data }));
        window.importScripts = (...files) => files.forEach(file => document.write('<script src="' + file + '"><\\/script>'));</script>
        <script src="${new URL(address, document.baseURI)}"></script>`;
      frame.addEventListener("load", () => {
        this.frame = frame.contentWindow;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      });
      // Later, as messages of a worker come: a caller does not expect the answer before its own call has ended.
      window.addEventListener("from-search", event => setTimeout(() => {
        const message = new MessageEvent("message", { data: structuredClone(event.detail) });
        if (this.onmessage) this.onmessage(message);
        this.dispatchEvent(message);
      }));
      (document.body || document.documentElement).append(frame);
    }
    postMessage(data) {
      if (this.frame) setTimeout(() => this.frame.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
