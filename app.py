"""The web app: the file that Hugging Face Spaces runs."""

import sys

from specviz.errors import UserError
from specviz.service import Options

if __name__ == "__main__":
    try:
        options = Options.from_environment()

        from specviz.ui.app import launch  # takes seconds, in which somebody may change their mind

        launch(options)
    except (UserError, OSError) as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
