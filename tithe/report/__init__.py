"""Faces of a finished result: made from the record alone, so that they can be made again, and elsewhere."""
