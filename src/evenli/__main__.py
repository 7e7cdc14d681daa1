"""``python -m evenli``, and the command ``evenli``."""

from evenli.core.startup import watch


def main() -> None:
    """Run the command line."""
    watch()  # before the imports of the command line, which take longest
    from evenli.cli import main as run

    run()


if __name__ == "__main__":
    main()
