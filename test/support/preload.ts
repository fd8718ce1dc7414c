import { afterAll } from 'bun:test'
import { stopTestStores } from './stores.ts'

const hangUpSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const exitCodeOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }

// Exiting in good order lets the stores' exit listener end them; the default would leave them behind.
for (const signal of hangUpSignals) process.once(signal, () => process.exit(exitCodeOf[signal]))

afterAll(stopTestStores)
