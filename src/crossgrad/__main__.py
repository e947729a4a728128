"""`python -m crossgrad` is the `crossgrad` command."""

from crossgrad._cli import main

if __name__ == "__main__":
    main()
