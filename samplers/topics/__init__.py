"""Topic models: Gibbs and variational."""
