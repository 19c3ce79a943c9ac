"""From a folder or archive to a plan."""
