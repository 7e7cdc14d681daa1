"""``python -m evenli``."""

from evenli.cli import main

if __name__ == "__main__":
    main()
