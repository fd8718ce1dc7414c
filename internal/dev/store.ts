/** What every embedded store is started with. */
export interface StoreOptions {
  /** The folder that holds the store's data; made when absent. One process at a time may use it. */
  readonly dataDir: string
  /** False for tests: faster, and a crash of the machine may lose or spoil the data. */
  readonly durable: boolean
  /** Told of each step in one short line, without secrets. */
  readonly onProgress?: (line: string) => void
}

/** A store that runs as our child. */
export interface RunningStore {
  /** How to reach it, password included: not for logs. */
  readonly url: string
  readonly pid: number
  /** Settles when its process ends, whoever ended it. */
  readonly exited: Promise<void>
  /** Ends it in good order within about 10 s. Repeating it is safe. */
  stop(): Promise<void>
}

/** How often a start is tried again because somebody took the port in between. */
export const portTriesMax = 5
/** How long a store may take to answer: after a crash it first replays its log. */
export const readyWithinMs = 60_000
