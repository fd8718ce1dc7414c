import { addCheckCommand } from './check.ts'
import type { Cli, Program } from './cli.ts'
import { addOperatorsCommand } from './operators.ts'
import { addProvidersCommand } from './providers.ts'
import { addRemoveFinalizersCommand } from './remove-finalizers.ts'

/** Adds the commands that are not called over HTTP. */
export function addOperatorCommands(program: Program, cli: Cli): void {
  program.commandsGroup('For operators, beside the service:')
  for (const add of [addCheckCommand, addRemoveFinalizersCommand, addOperatorsCommand, addProvidersCommand])
    add(program, cli)
}
