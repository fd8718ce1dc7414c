import type { Logger } from '#internal/telemetry/index.ts'
import { OwnedScope, type Scope } from './scope.ts'

export interface RunOptions {
  readonly name: string
  readonly log: Logger
  /** Time limit of the shutdown, counted from the signal. */
  readonly graceMs: number
  /** Opens all components in order through the scope. The process then runs until it is stopped. */
  readonly start: (scope: Scope) => Promise<void>
  /**
   * Returns a message for the terminal instead of log lines, for start-up failures that the user can fix. Returns undefined for all other
   * failures.
   */
  readonly explain?: (cause: unknown) => string | undefined
}

type Ending =
  | { readonly kind: 'signal'; readonly signal: 'SIGINT' | 'SIGTERM' }
  | { readonly kind: 'asked' }
  | { readonly kind: 'broken'; readonly text: string; readonly cause: unknown }

/** Time limit of the shutdown after a crash. Work in flight is dropped, but child processes and sockets are closed. */
const brokenGraceMs = 3000
/** Time in which a second signal counts as a repetition: a terminal signals a whole process group, and npm forwards the signal again. */
const sameSignalMs = 500
const signalNumbers = { SIGINT: 2, SIGTERM: 15 }

/**
 * Runs a process: starts its components, waits, closes them in reverse order, and exits. SIGTERM and SIGINT stop it with code 0. Another
 * signal exits immediately with 128 + its number, unless it follows within half a second. A failed start, an unhandled rejection and an
 * uncaught exception are logged and exit with code 1. Never returns.
 */
export async function runProcess(options: RunOptions): Promise<never> {
  const { log } = options
  const startedMs = performance.now()
  const { promise: ended, resolve: end } = Promise.withResolvers<Ending>()
  listen(end, log)
  const scope = new OwnedScope({
    log,
    stop: (cause) =>
      end(
        cause === undefined ? { kind: 'asked' } : { kind: 'broken', text: 'a component has failed', cause },
      ),
  })
  void Promise.try(options.start, scope).then(
    () => {
      if (scope.signal.aborted) return
      log.info({ process: options.name, durationMs: performance.now() - startedMs }, 'process is up')
    },
    (cause: unknown) => end({ kind: 'broken', text: 'process could not start', cause }),
  )
  const ending = await ended
  const explained = ending.kind === 'broken' ? options.explain?.(ending.cause) : undefined
  if (explained !== undefined) process.stderr.write(`\n${explained}\n\n`)
  else if (ending.kind === 'broken') log.error({ process: options.name, cause: ending.cause }, ending.text)
  else log.info({ process: options.name, reason: reasonOf(ending) }, 'process is ending')
  log.flush()
  const endingMs = performance.now()
  await scope.close(ending.kind === 'broken' ? Math.min(options.graceMs, brokenGraceMs) : options.graceMs)
  if (explained === undefined)
    log.info({ process: options.name, durationMs: performance.now() - endingMs }, 'process has ended')
  log.flush()
  process.exit(ending.kind === 'broken' ? 1 : 0)
}

function reasonOf(ending: Exclude<Ending, { kind: 'broken' }>): string {
  return ending.kind === 'signal' ? ending.signal : 'asked'
}

/** Installs the handlers of signals and errors. They stay installed until exit, so that errors during shutdown are also handled. */
function listen(end: (ending: Ending) => void, log: Logger): void {
  let firstAtMs: number | undefined
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      firstAtMs ??= performance.now()
      end({ kind: 'signal', signal })
      if (performance.now() - firstAtMs < sameSignalMs) return
      log.warn({ signal }, 'second signal: process exits immediately')
      log.flush()
      process.exit(128 + signalNumbers[signal])
    })
  }
  let bugs = 0
  const onBug = (text: string, cause: unknown) => {
    bugs += 1
    if (bugs === 1) end({ kind: 'broken', text, cause })
    else log.error({ cause }, text)
  }
  process.on('unhandledRejection', (cause) => onBug('unhandled rejection', cause))
  process.on('uncaughtException', (cause) => onBug('uncaught exception', cause))
}
