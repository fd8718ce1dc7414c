import { runLatchkey } from './run-latchkey.ts'
import { processTerminal } from './terminal.ts'

// The only program of the image: `latchkey <command>`. The code of a process is loaded only when its command runs.
const exitCode = await runLatchkey(process.argv.slice(2), processTerminal())
if (exitCode !== undefined) process.exitCode = exitCode
