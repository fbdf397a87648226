"""An import contract of our own: nobody imports another room's private module."""

from importlinter import Contract, ContractCheck, fields, output


class PrivateModules(Contract):
    """Modules whose name, or that of a package around them, begins with an underscore stay in their room."""

    root = fields.StringField()

    def check(self, graph, verbose):
        """Look at every import within the package."""
        bad = sorted(
            (importer, imported)
            for importer in graph.modules
            if importer.startswith(self.root + ".")
            for imported in graph.find_modules_directly_imported_by(importer)
            if imported.startswith(self.root + ".") and self._is_private(importer, imported)
        )
        return ContractCheck(kept=not bad, metadata={"bad": bad})

    def render_broken_contract(self, check):
        """Name every import that breaks it."""
        for importer, imported in check.metadata["bad"]:
            output.print_error(f"{importer} imports {imported}, which is private to its room.")

    def _is_private(self, importer, imported):
        depth = self.root.count(".") + 1
        room, *within = imported.split(".")[depth:]
        private = any(name.startswith("_") and not name.startswith("__") for name in (room, *within))
        return private and importer.split(".")[depth] != room
