"""What can go wrong."""


class RecordError(ValueError):
    """A file that holds no record of Hairpin, or not all of one. The message names the file and the cause."""


class NothingToDraw(TypeError):
    """A record whose kind has no picture, or that lacks what its picture shows."""
