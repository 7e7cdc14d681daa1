"""``python -m evenli``, and the command ``evenli``."""

import traceback

from evenli.core.startup import own_streams, watch


def main() -> None:
    """Run the command line."""
    own_streams()
    watch()  # before the imports of the command line, which take longest
    try:
        from evenli.cli import main as run

        run()
    except Exception:  # with --debug, or where the command line itself cannot be imported
        traceback.print_exc()
        raise SystemExit(2) from None  # 1 would say that a gate failed


if __name__ == "__main__":
    main()
