const exitCodeOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }

// A regular exit runs the exit listener that stops the stores; the default signal handling would not.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(exitCodeOf[signal]))
