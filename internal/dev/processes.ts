import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

/** Error for a store that did not start for a reason that the developer can fix. The message contains the remedy and no secret. */
export class StoreStartError extends Error {
  override readonly name = 'StoreStartError'
}

export interface RunAs {
  readonly uid: number
  readonly gid: number
}

/** Child process that ends when our process ends, unless our process is killed by SIGKILL. */
export interface Child {
  readonly pid: number
  /** Resolves when the process has ended, with its exit code, or with null if a signal ended it. */
  readonly exited: Promise<number | null>
  hasExited(): boolean
  /** Sends a signal. Does nothing after the process has ended. */
  signal(signal: NodeJS.Signals): void
  /** Asks the child to shut down, kills the child after 10 s, and waits until it has ended. Repeating the call is safe. */
  stop(): Promise<void>
}

const stopWaitMs = 10_000
const logBytesMax = 8 * 1024 * 1024
const logTailLines = 15

/** Calls `check` every `everyMs` until it returns a value other than undefined. Returns that value, or undefined after the deadline. */
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

/**
 * Pids of running children, each with the signal that it receives when our process exits. All share one exit listener, to stay below the
 * limit on listeners.
 */
const owned = new Map<number, NodeJS.Signals>()

/**
 * Starts a child in a session of its own, so that Ctrl-C at the terminal reaches only our process, which chooses the order of shutdown. The
 * environment is minimal, so that an inherited PGOPTIONS or LD_PRELOAD does not affect the child.
 */
export function spawnChild({
  argv,
  runAs,
  logPath,
  stopSignal,
  exitSignal,
}: {
  readonly argv: readonly string[]
  readonly runAs: RunAs | undefined
  /** File to which both output streams are appended. */
  readonly logPath: string
  /** Signal for an orderly shutdown of the child. */
  readonly stopSignal: NodeJS.Signals
  /** Signal sent, without waiting, when our process exits before the child has been stopped. */
  readonly exitSignal: NodeJS.Signals
}): Child {
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
      // SIGCONT resumes a suspended child, so that it can handle the stop signal.
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
      // The process has already ended.
    }
  }
}

/** Returns the last lines of a child's log, for error messages. */
export function logTail(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-logTailLines).join('\n')
}

/** `command`: the program and its arguments, joined by single spaces. */
export interface ProcessFacts {
  readonly pid: number
  readonly command: string
}

/** Lists the running processes, without zombies, from /proc where it exists, otherwise from `ps`. */
export async function listProcesses(): Promise<ProcessFacts[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  if (pids.length === 0) {
    const ps = Bun.spawn(['ps', '-axww', '-o', 'pid=,stat=,command='], { stdout: 'pipe', stderr: 'ignore' })
    return parsePs(await new Response(ps.stdout).text())
  }
  const facts = await Promise.all(
    pids.map(async (pid) => {
      // A process can end between the listing and the read. The command line of a zombie or a kernel thread is empty.
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

/**
 * Ends every process whose command line `isOurs` accepts. Each step sends its signal to the processes that are left and waits for them to
 * end. Returns the pids of the matching processes. Repeating the call is safe.
 * @throws StoreStartError when a process survives the last step or belongs to another user
 */
export async function endProcesses(
  isOurs: (command: string) => boolean,
  steps: readonly {
    readonly signal: NodeJS.Signals
    readonly waitMs: number
  }[],
): Promise<number[]> {
  const find = async () => (await listProcesses()).filter(({ command }) => isOurs(command))
  const first = await find()
  let left = first
  for (const { signal, waitMs } of steps) {
    if (left.length === 0) break
    // SIGCONT resumes a suspended process, so that it can handle the signal of the step.
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

/**
 * Sends a signal; returns false when the process has ended.
 * @throws StoreStartError when the process belongs to another user
 */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ESRCH') return false
    throw new StoreStartError(`process ${pid} belongs to another user, so this user cannot end it`, {
      cause,
    })
  }
}
