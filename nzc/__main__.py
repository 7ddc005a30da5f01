"""`python -m nzc`: the command line."""

from nzc.app.main import main

if __name__ == "__main__":
    main()
