import { statSync } from 'node:fs'
import { freePort } from './ports.ts'
import { type Child, logTail, poll, type RunAs, StoreStartError } from './processes.ts'

/** Options of every embedded store. */
export interface StoreOptions {
  /** Folder of the store's data; made when absent. The caller sees to it that one process at a time uses it. */
  readonly dataDir: string
  /** False for tests: faster, and a crash of the machine may lose or damage the data. */
  readonly durable: boolean
  /** Receives one line per step, without secrets. */
  readonly onProgress?: (line: string) => void
  /** Port of an earlier start, where clients expect it; default a free one. */
  readonly port?: number
}

/** A store that runs as our child on 127.0.0.1. */
export interface RunningStore {
  /** Holds the password: not for logs. */
  readonly url: string
  readonly pid: number
  readonly port: number
  /** Settles when its process ends, for whatever reason. */
  readonly exited: Promise<number | null>
  /** Sends a signal to its first process, such as SIGSTOP to hang it. */
  signal(signal: NodeJS.Signals): void
  /** Ends it in good order within about 10 s. Repeating it is safe. */
  stop(): Promise<void>
}

/** Program of a store, started once for each port that is tried. */
interface ServerProgram {
  readonly name: string
  readonly logPath: string
  readonly port: number | undefined
  readonly spawn: (port: number) => Promise<Child>
  readonly isReady: (port: number) => Promise<boolean>
}

const triesMax = 5
const retryMs = 200
/** Bound of a start: after a crash a store first replays its log. */
const readyWithinMs = 60_000

/**
 * Starts a server and waits until it is ready. One that ends at once is started again: its port may have been taken meanwhile, or a
 * killed predecessor's processes may take a moment to end.
 * @throws StoreStartError with the last lines of its log
 */
export async function startServer(program: ServerProgram): Promise<Omit<RunningStore, 'url'>> {
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

/** As root: the owner of the first existing path, unless that is root, so that the owner can use its folder afterwards. */
export function ownerOf(...paths: readonly string[]): RunAs | undefined {
  if (process.getuid?.() !== 0) return undefined
  const owners = paths.flatMap((path) => statSync(path, { throwIfNoEntry: false }) ?? [])
  return owners.map(({ uid, gid }) => ({ uid, gid })).find(({ uid }) => uid !== 0)
}
