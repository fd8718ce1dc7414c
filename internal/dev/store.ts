import { statSync } from 'node:fs'
import { freePort } from './ports.ts'
import { type Child, logTail, poll, type RunAs, StoreStartError } from './processes.ts'

export interface StoreOptions {
  /** Folder of the store's data, created if missing. The caller ensures that only one process uses the folder. */
  readonly dataDir: string
  /** False for tests: the store is faster, but a crash of the machine can lose or damage the data. */
  readonly durable: boolean
  /** Receives one progress line per step, without secrets. */
  readonly onProgress?: (line: string) => void
  /** Port of an earlier start, if clients still use that port. Default: a free port. */
  readonly port?: number
}

/** Store that runs as a child process on 127.0.0.1. */
export interface RunningStore {
  /** Connection URL. It contains the password and must not be logged. */
  readonly url: string
  readonly pid: number
  readonly port: number
  /** Resolves with the exit code when the store's process has ended for any reason. */
  readonly exited: Promise<number | null>
  /** Sends a signal to the store's first process, such as SIGSTOP to make the store hang. */
  signal(signal: NodeJS.Signals): void
  /** Shuts the store down cleanly within about 10 s. Repeating the call is safe. */
  stop(): Promise<void>
}

const triesMax = 5
const retryMs = 200
/** Timeout of a start. It is long because a store replays its log after a crash. */
const readyWithinMs = 60_000

/**
 * Starts a server and waits until it is ready. A server that ends before it is ready is started again, at most five times in total, because
 * another process may have taken its port, or processes of a killed earlier run may still be running.
 * @throws StoreStartError with the last lines of the server's log
 */
export async function startServer(program: {
  readonly name: string
  readonly logPath: string
  readonly port: number | undefined
  readonly spawn: (port: number) => Promise<Child>
  readonly isReady: (port: number) => Promise<boolean>
}): Promise<Omit<RunningStore, 'url'>> {
  for (let attempt = 1; attempt <= triesMax; attempt += 1) {
    const port = program.port ?? (await freePort())
    const child = await program.spawn(port)
    const outcome = await poll(
      async () => {
        if (child.hasExited()) return 'ended'
        return (await program.isReady(port)) ? 'ready' : undefined
      },
      { deadlineMs: readyWithinMs },
    )
    if (outcome === 'ready') return { ...child, port }
    await child.stop()
    if (outcome !== 'ended') break
    await Bun.sleep(retryMs)
  }
  const { name, logPath } = program
  throw new StoreStartError(`${name} did not start; the last lines of ${logPath}:\n${logTail(logPath)}`)
}

/**
 * If this process runs as root, returns the first owner of these paths that is not root, so that the owner can use the files afterwards.
 */
export function ownerOf(...paths: readonly string[]): RunAs | undefined {
  if (process.getuid?.() !== 0) return undefined
  const owners = paths.flatMap((path) => statSync(path, { throwIfNoEntry: false }) ?? [])
  return owners.map(({ uid, gid }) => ({ uid, gid })).find(({ uid }) => uid !== 0)
}
