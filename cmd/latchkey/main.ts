import { runLatchkey } from './run-latchkey.ts'

// The one program of the image: `latchkey <command>`. A process is loaded only when it is asked for.
const exitCode = await runLatchkey(process.argv.slice(2), {
  env: process.env,
  say: (text) => void process.stdout.write(`${text}\n`),
  complain: (text) => void process.stderr.write(`${text}\n`),
})
if (exitCode !== undefined) process.exitCode = exitCode
