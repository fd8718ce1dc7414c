import { version } from '../../package.json'
import { misused, say } from './command.ts'
import { commands } from './commands.ts'

// The one program of the image: `latchkey <command>`. A process is loaded only when it is asked for.
const [name = '', ...args] = process.argv.slice(2)
const command = Object.hasOwn(commands, name) ? commands[name] : undefined
if (command) {
  const exitCode = await command.run(args)
  if (exitCode !== undefined) process.exitCode = exitCode
} else if (name === '--version') {
  say(version)
} else if (name === '--help' || name === '-h' || name === 'help') {
  say(overview())
} else {
  process.exitCode = misused(
    name === '' ? 'A command is missing' : `There is no command "${name}"`,
    'latchkey',
  )
}

function overview(): string {
  const width = Math.max(...Object.keys(commands).map((each) => each.length))
  const lines = Object.entries(commands).map(([each, { summary }]) => `  ${each.padEnd(width)}  ${summary}`)
  return `usage: latchkey <command> [arguments]\n\n${lines.join('\n')}\n\nlatchkey <command> --help tells more; latchkey --version tells which this is.`
}
