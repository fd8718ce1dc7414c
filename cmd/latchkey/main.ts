import { runLatchkey } from './run-latchkey.ts'

// The only program of the image: `latchkey <command>`. The code of a process is loaded only when its command runs.
const exitCode = await runLatchkey(process.argv.slice(2), {
  env: process.env,
  say: (text) => void process.stdout.write(`${text}\n`),
  complain: (text) => void process.stderr.write(`${text}\n`),
})
if (exitCode !== undefined) process.exitCode = exitCode
