import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync } from 'node:fs'
import { signalProcess } from './processes.ts'

/** The user that a child runs as, when it is not our own. */
export interface RunAs {
  readonly uid: number
  readonly gid: number
}

/** What a child is started with. */
export interface ChildOptions {
  readonly argv: readonly string[]
  readonly runAs?: RunAs
  /** Gets both output streams, appended. */
  readonly logPath: string
  /** Asks the child to end in good order. */
  readonly stopSignal: NodeJS.Signals
  /** Sent, unwaited, when our process exits without having stopped the child. */
  readonly exitSignal: NodeJS.Signals
}

/** A child process that does not outlive us, unless we are killed outright. */
export interface Child {
  readonly pid: number
  /** Settles when the process has ended, with its exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>
  hasExited(): boolean
  /** Sends a signal; nothing happens once the process has ended. */
  signal(signal: NodeJS.Signals): void
  /** Asks the child to end, kills it after 10 s, and returns when it is gone. Repeating it is safe. */
  stop(): Promise<void>
}

const stopWaitMs = 10_000
const logBytesMax = 8 * 1024 * 1024
const logTailLines = 15

/**
 * The children of this process and how to end each at exit. One set and one listener for the whole process, since a
 * listener for each would run into the warning about leaks.
 */
const owned = new Map<number, NodeJS.Signals>()

/**
 * Starts a child in a session of its own, so that a Ctrl-C on the terminal reaches us alone and we choose the order of
 * ending. Its environment is bare: what PGOPTIONS or LD_PRELOAD say is none of its business.
 */
export function spawnChild(options: ChildOptions): Child {
  const log = openLog(options.logPath)
  try {
    const { promise: exited, resolve } = Promise.withResolvers<number | null>()
    const child = Bun.spawn([...options.argv], {
      cwd: '/',
      env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      stdin: 'ignore',
      stdout: log,
      stderr: log,
      detached: true,
      ...options.runAs,
      onExit: (ended, exitCode) => {
        owned.delete(ended.pid)
        resolve(exitCode)
      },
    })
    own(child.pid, options.exitSignal)
    const hasExited = () => child.exitCode !== null || child.signalCode !== null
    const signal = (name: NodeJS.Signals) => {
      if (!hasExited()) signalProcess(child.pid, name)
    }
    return { pid: child.pid, exited, hasExited, signal, stop: () => stop(signal, exited, options.stopSignal) }
  } finally {
    closeSync(log)
  }
}

async function stop(
  signal: (name: NodeJS.Signals) => void,
  exited: Promise<number | null>,
  stopSignal: NodeJS.Signals,
): Promise<void> {
  signal(stopSignal)
  // One that was suspended would otherwise not hear of it.
  signal('SIGCONT')
  const kill = setTimeout(() => signal('SIGKILL'), stopWaitMs)
  await exited
  clearTimeout(kill)
}

function own(pid: number, exitSignal: NodeJS.Signals): void {
  if (owned.size === 0 && !process.listeners('exit').includes(endOwned)) process.on('exit', endOwned)
  owned.set(pid, exitSignal)
}

function endOwned(): void {
  for (const [pid, signal] of owned) {
    try {
      process.kill(pid, signal)
      process.kill(pid, 'SIGCONT')
    } catch {
      // Gone already; an exit listener has nobody to tell anyway.
    }
  }
}

function openLog(path: string): number {
  const log = openSync(path, 'a', 0o600)
  if (fstatSync(log).size > logBytesMax) ftruncateSync(log)
  return log
}

/** The last lines of a child's log, for the message about its failure. */
export function logTail(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-logTailLines).join('\n')
}
