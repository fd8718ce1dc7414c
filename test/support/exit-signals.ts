const exitCodeOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }

// Exiting in good order lets the stores' exit listener end them; the default would leave them behind.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(exitCodeOf[signal]))
