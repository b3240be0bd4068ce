"""The paper's protocol on any families: protocol -> tables -> figures -> report."""
