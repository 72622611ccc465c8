"""`python -m rankloop.cli`, where the script is not on the path."""

from rankloop.cli.main import main

if __name__ == "__main__":
    main()
