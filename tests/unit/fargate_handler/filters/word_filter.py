import re


class WordFilter:
    def __init__(self, before: str) -> None:
        self.held = ""

    def push(self, text: str) -> str:
        *words, self.held = re.split(r"(?<=\W)", self.held + text)
        return re.sub(r"\bBob\b", "[name]", "".join(words))

    def finish(self) -> str:
        return re.sub(r"\bBob\b", "[name]", self.held)
