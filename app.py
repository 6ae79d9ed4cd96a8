"""The web app: the file that Hugging Face Spaces runs."""

import sys

from specviz.errors import UserError
from specviz.ui.app import launch

if __name__ == "__main__":
    try:
        launch()
    except (UserError, OSError) as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
