"""The formats, one short file each. A file is imported when its format is first asked for."""
