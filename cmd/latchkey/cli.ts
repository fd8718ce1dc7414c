import type { Command } from '@commander-js/extra-typings'
import { type Clock, toWire } from '#internal/base/index.ts'
import { Tables } from './tables.ts'
import type { Terminal } from './terminal.ts'

/** Exit codes of all commands, except those that start a process of Latchkey, which sets its own. */
export const exitCodes = { ok: 0, failed: 1, misused: 2, notFound: 3, refused: 4, unavailable: 5 } as const

/** Undefined for a process that sets its own exit code. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes] | undefined

export type Program = Command

export class Cli {
  readonly terminal: Terminal
  readonly clock: Clock
  readonly tables: Tables
  exitCode: ExitCode = exitCodes.ok

  constructor(terminal: Terminal, clock: Clock) {
    this.terminal = terminal
    this.clock = clock
    this.tables = new Tables(terminal.isColoured)
  }

  action<Args extends unknown[]>(
    work: (...args: Args) => Promise<ExitCode>,
  ): (...args: Args) => Promise<void> {
    return async (...args) => {
      this.exitCode = await work(...args)
    }
  }

  answer(result: Result, { json: isJson }: JsonOption): ExitCode {
    const isFailure = 'problem' in result
    const text = isJson ? jsonTextOf(result) : isFailure ? '' : result.text
    if (text !== '') this.terminal.say(text)
    else if (isFailure) this.terminal.complain(result.problem)
    if ('note' in result && result.note !== undefined) this.terminal.complain(result.note)
    return isFailure ? (result.exitCode ?? exitCodes.failed) : exitCodes.ok
  }

  /** Asks for confirmation. Returns undefined to proceed, or the reason not to. */
  async confirm(question: string): Promise<Problem | undefined> {
    const { ask } = this.terminal
    if (ask === undefined)
      return {
        problem: 'Nothing was done: confirm with --yes, because the command cannot ask here',
        exitCode: exitCodes.misused,
      }
    const answer = await ask({ text: `${question} [y/N] `, isSecret: false })
    return /^y(es)?$/i.test(answer?.trim() ?? '') ? undefined : { problem: 'Nothing was done' }
  }

  /** Prints the error, without SQL parameters. */
  async fail(error: unknown): Promise<ExitCode> {
    // Loaded here, because most commands do not need the storage.
    const { withoutParameters } = await import('#internal/storage/index.ts')
    this.terminal.complain(`The command failed: ${reasonOf(withoutParameters(error))}`)
    return exitCodes.failed
  }
}

export interface Problem {
  /** Description of the problem, and what to do about it. */
  readonly problem: string
  /** Default: an object with the problem. */
  readonly json?: unknown
  /** Default: 1. */
  readonly exitCode?: ExitCode
}

/** Timestamps in `json` are in milliseconds. */
export type Result =
  | {
      readonly text: string
      readonly json: unknown
      /** Printed to standard error. */
      readonly note?: string | undefined
    }
  /** JSON of the service as received, because a parser could change its numbers. */
  | { readonly text: string; readonly jsonText: string }
  | Problem

function jsonTextOf(result: Result): string {
  if ('jsonText' in result) return result.jsonText
  const json = 'problem' in result ? (result.json ?? { problem: result.problem }) : result.json
  return JSON.stringify(toWire(json), null, 2)
}

export interface JsonOption {
  readonly json?: true | undefined
}

export const jsonOption = ['--json', 'prints one JSON document'] as const

/** Returns the text of an error. If all addresses of a host name failed, uses the error of the first address. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  if (!(error instanceof Error)) return 'without a reason'
  const isUnmigrated = 'code' in error && error.code === '42P01'
  return isUnmigrated ? `${error.message}: run latchkey migrate first` : error.message
}
