import type { Duplex } from 'node:stream'

/** Who is told what comes over a connection. */
export interface ConnectionUser {
  data(bytes: Buffer): void
  /** The far side has said its last; nothing comes after it. */
  ended(): void
  /** It broke, or was closed by either side; told once, and nothing after it. */
  closed(error: unknown): void
}

/**
 * A socket that serves one request after the other. Its listeners are set once; whoever uses it is told. What comes while nobody
 * does ends it: no server has anything to say unasked.
 */
export class Connection {
  readonly #socket: Duplex
  #user: ConnectionUser | undefined
  #isClosed = false
  /** By `performance.now()`: since when nobody has used it. */
  idleSinceMs = 0

  /** @param onClosed told once the socket is closed */
  constructor(socket: Duplex, onClosed: (connection: Connection) => void) {
    this.#socket = socket
    let error: unknown
    socket.on('data', (bytes: Buffer) => (this.#user ? this.#user.data(bytes) : this.close()))
    socket.on('end', () => (this.#user ? this.#user.ended() : this.close()))
    socket.on('error', (one) => {
      error = one
    })
    socket.on('close', () => {
      this.#isClosed = true
      onClosed(this)
      this.#user?.closed(error)
    })
  }

  /** Whether it takes another request. */
  get isUsable(): boolean {
    return !this.#isClosed && !this.#socket.destroyed && this.#socket.writable && this.#socket.readable
  }

  /** All that was given to `write` is out of our hands. */
  get isFlushed(): boolean {
    return this.#socket.writableLength === 0
  }

  /** Gives it to somebody; undefined takes it back. */
  use(user: ConnectionUser | undefined): void {
    this.#user = user
  }

  write(bytes: Buffer): void {
    this.#socket.write(bytes)
  }

  /** Ends it at once. Repeating it is harmless. */
  close(): void {
    this.#socket.destroy()
  }
}
