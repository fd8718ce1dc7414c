import { listProcesses, poll, removeStores } from '#internal/dev/index.ts'
import { scratchFolder } from '../scratch.ts'
import { type DevServer, type DevServerOptions, startDevServer } from './dev-server.ts'

/** Time limit of a test that starts dev servers, which takes seconds on an idle machine. */
export const startsMs = 120_000
const endsMsMax = 60_000

/** Dev servers, each with its own folder. */
export interface DevLab {
  /** Creates a data folder; if `closed`, only root may enter it. */
  folder(options?: { readonly closed?: boolean }): string
  start(options: DevServerOptions): DevServer
  /** Also removes the stores of this folder at the end. */
  adopt(folder: string): void
  /** Kills running servers and removes all folders. Safe to repeat. */
  close(): Promise<void>
}

/** Creates a lab. The caller closes it after each test. */
export function createDevLab(): DevLab {
  const folders: string[] = []
  const servers: DevServer[] = []
  return {
    folder(options = {}) {
      const path = scratchFolder(options)
      folders.push(path)
      return path
    },
    start(options) {
      const server = startDevServer(options)
      servers.push(server)
      return server
    },
    adopt: (folder) => void folders.push(folder),
    async close() {
      for (const server of servers.splice(0)) {
        server.signal('SIGKILL')
        await server.exited
      }
      for (const folder of folders.splice(0)) await removeStores(folder)
    },
  }
}

/** Returns the command lines of the stores with data in a folder. */
export async function storesIn(dataDir: string): Promise<string[]> {
  return (await listProcesses())
    .map(({ command }) => command)
    .filter((command) => command.includes(`${dataDir}/`))
}

/** Waits for both stores; a new Postgres process briefly has another command line. */
export async function bothStoresRunIn(dataDir: string): Promise<boolean> {
  const both = await poll(async () => (await storesIn(dataDir)).length === 2 || undefined, {
    deadlineMs: endsMsMax,
  })
  return both ?? false
}

/** Waits up to a minute for the end of both stores. */
export async function storesEndIn(dataDir: string): Promise<boolean> {
  const gone = await poll(async () => (await storesIn(dataDir)).length === 0 || undefined, {
    deadlineMs: endsMsMax,
  })
  return gone ?? false
}
