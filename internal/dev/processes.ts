import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

/** A store could not be started for a reason that the developer can fix; the text says how. Holds no secret. */
export class StoreStartError extends Error {
  override readonly name = 'StoreStartError'
}

/** User id and group id of a child that does not run as our own user. */
export interface RunAs {
  readonly uid: number
  readonly gid: number
}

/** Command line of a child, and how to end it. */
export interface ChildOptions {
  readonly argv: readonly string[]
  readonly runAs: RunAs | undefined
  /** Gets both output streams, appended. */
  readonly logPath: string
  /** Asks the child for an orderly end. */
  readonly stopSignal: NodeJS.Signals
  /** Sent, without waiting, when our process exits before it has stopped the child. */
  readonly exitSignal: NodeJS.Signals
}

/** A child process that does not outlive us, unless we are killed by SIGKILL. */
export interface Child {
  readonly pid: number
  /** Settles when the process has ended, with its exit code; null after a signal. */
  readonly exited: Promise<number | null>
  hasExited(): boolean
  /** Sends a signal. Does nothing once the process has ended. */
  signal(signal: NodeJS.Signals): void
  /** Asks the child to end, kills it after 10 s, and returns when it is gone. Repeating it is safe. */
  stop(): Promise<void>
}

const stopWaitMs = 10_000
const logBytesMax = 8 * 1024 * 1024
const logTailLines = 15

/** Calls `check` each 20 ms until it returns something other than undefined, and returns that; undefined after the deadline. */
export async function poll<T>(
  check: () => Promise<T | undefined> | T | undefined,
  { deadlineMs, everyMs = 20 }: { readonly deadlineMs: number; readonly everyMs?: number },
): Promise<T | undefined> {
  const end = performance.now() + deadlineMs
  for (;;) {
    const found = await check()
    if (found !== undefined || performance.now() >= end) return found
    await Bun.sleep(everyMs)
  }
}

/** Live children with the signal that ends each at our exit: one listener for all, since one for each would pass the limit on listeners. */
const owned = new Map<number, NodeJS.Signals>()

/**
 * Starts a child in a session of its own, so that Ctrl-C at the terminal reaches us alone and we choose the order of ending. Its
 * environment is bare: PGOPTIONS or LD_PRELOAD of ours must not change it.
 */
export function spawnChild({ argv, runAs, logPath, stopSignal, exitSignal }: ChildOptions): Child {
  const log = openSync(logPath, 'a', 0o600)
  try {
    if (fstatSync(log).size > logBytesMax) ftruncateSync(log)
    const { promise: exited, resolve } = Promise.withResolvers<number | null>()
    const child = Bun.spawn([...argv], {
      cwd: '/',
      env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      stdin: 'ignore',
      stdout: log,
      stderr: log,
      detached: true,
      ...runAs,
      onExit: (ended, exitCode) => {
        owned.delete(ended.pid)
        resolve(exitCode)
      },
    })
    if (owned.size === 0 && !process.listeners('exit').includes(endOwned)) process.on('exit', endOwned)
    owned.set(child.pid, exitSignal)
    const hasExited = () => child.exitCode !== null || child.signalCode !== null
    const signal = (name: NodeJS.Signals) => {
      if (!hasExited()) signalProcess(child.pid, name)
    }
    const stop = async () => {
      signal(stopSignal)
      // Wakes a suspended child, which would not receive the first signal.
      signal('SIGCONT')
      const kill = setTimeout(() => signal('SIGKILL'), stopWaitMs)
      await exited
      clearTimeout(kill)
    }
    return { pid: child.pid, exited, hasExited, signal, stop }
  } finally {
    closeSync(log)
  }
}

function endOwned(): void {
  for (const [pid, signal] of owned) {
    try {
      process.kill(pid, signal)
      process.kill(pid, 'SIGCONT')
    } catch {
      // Already gone.
    }
  }
}

/** Returns the last lines of a child's log, for the message about its failure. */
export function logTail(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-logTailLines).join('\n')
}

/** A live process of this machine; `command` is its arguments joined by one space. */
export interface ProcessFacts {
  readonly pid: number
  readonly command: string
}

/** Lists the live processes without zombies: from /proc where it exists, otherwise by `ps`. */
export async function listProcesses(): Promise<ProcessFacts[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  if (pids.length === 0) {
    const ps = Bun.spawn(['ps', '-axww', '-o', 'pid=,stat=,command='], { stdout: 'pipe', stderr: 'ignore' })
    return parsePs(await new Response(ps.stdout).text())
  }
  const facts = await Promise.all(
    pids.map(async (pid) => {
      // A process may end between the listing and the read; a zombie's and a kernel thread's line is empty.
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return { pid, command: line.replaceAll('\0', ' ').trim() }
    }),
  )
  return facts.filter(({ command }) => command !== '')
}

/** Parses the output of `ps -o pid=,stat=,command=`. */
export function parsePs(text: string): ProcessFacts[] {
  return text.split('\n').flatMap((line) => {
    const [, pid, state, command] = /^\s*(\d+)\s+(\S+)\s+(.*\S)\s*$/.exec(line) ?? []
    return pid && state && command && !state.startsWith('Z') ? [{ pid: Number(pid), command }] : []
  })
}

/** A signal, and how long its receivers then have to end. */
export interface EndStep {
  readonly signal: NodeJS.Signals
  readonly waitMs: number
}

/**
 * Ends every process whose command line `isOurs` accepts, step by step until none is left. Returns the pids that it found.
 * Repeating it is safe.
 * @throws StoreStartError when one survives the last step or belongs to another user
 */
export async function endProcesses(
  isOurs: (command: string) => boolean,
  steps: readonly EndStep[],
): Promise<number[]> {
  const find = async () => (await listProcesses()).filter(({ command }) => isOurs(command))
  const first = await find()
  let left = first
  for (const { signal, waitMs } of steps) {
    if (left.length === 0) break
    // A suspended process receives the first signal only after SIGCONT.
    for (const { pid } of left) if (signalProcess(pid, signal)) signalProcess(pid, 'SIGCONT')
    await poll(
      async () => {
        left = await find()
        return left.length === 0 || undefined
      },
      { deadlineMs: waitMs, everyMs: 50 },
    )
  }
  if (left.length > 0) throw new StoreStartError(`process ${left[0]?.pid} does not end; end it with kill -9`)
  return first.map(({ pid }) => pid)
}

/** Sends a signal; returns false when the process is gone. @throws StoreStartError when it belongs to another user */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ESRCH') return false
    throw new StoreStartError(`process ${pid} belongs to another user and cannot be ended from here`, {
      cause,
    })
  }
}
