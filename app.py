"""The web app: the file that Hugging Face Spaces runs."""

from specviz.ui.app import launch

if __name__ == "__main__":
    launch()
