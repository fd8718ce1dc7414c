import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { Cli } from '#cmd/latchkey/cli.ts'
import { createProgram } from '#cmd/latchkey/run-latchkey.ts'
import { systemClock } from '#internal/base/index.ts'

/** Path of the page about the command line, whose second half is generated. */
export const cliPagePath = 'docs/reference/cli.md'

/** Replaces the generated part of the page by the help of each command. */
export async function withCliHelp(page: string): Promise<string> {
  const part = /(?<=<!-- help:begin -->\n)[\s\S]*?(?=<!-- help:end -->)/
  const help = (await cliHelp()).join('\n\n')
  return page.replace(part, () => `\n${help}\n\n`)
}

async function cliHelp(): Promise<readonly string[]> {
  let shown = ''
  const terminal = {
    env: {},
    isColoured: false,
    read: () => Promise.resolve(''),
    say: (text: string) => void (shown += `${text}\n`),
    complain: () => undefined,
  }
  const sectionsOf = (command: CommandUnknownOpts, parents: string): string[] => {
    const path = `${parents} ${command.name()}`.trim()
    shown = ''
    command.outputHelp()
    const section = `### ${path}\n\n\`\`\`text\n${shown.trim()}\n\`\`\``
    const commands = command
      .createHelp()
      .visibleCommands(command)
      .filter((each) => each.name() !== 'help')
    return [section, ...commands.flatMap((each) => sectionsOf(each, path))]
  }
  return sectionsOf(await createProgram(new Cli(terminal, systemClock)), '')
}
