const exitCodeOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }

// Exits regularly, so that the exit listener stops the stores; the default signal handling would not call the listener.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(exitCodeOf[signal]))
