"""`python -m queuectl` is the same as the `queuectl` command."""

from queuectl.cli.main import main

if __name__ == "__main__":
    main()
