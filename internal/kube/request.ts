/** Pool of concurrent calls that a call belongs to. `lease`: Lease renewals only; `list`: lists; `call`: all other calls. */
export type CallShare = 'lease' | 'list' | 'call'

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Body; sent as JSON. */
  readonly body?: unknown
  /** Content type; default `application/json`. A patch must set its patch type. */
  readonly contentType?: string
  /** Leaves the server's message out of failures, because it may quote a Secret. */
  readonly secret?: boolean
  /**
   * Timeout of the call, including its wait for a slot in its pool of concurrent calls; default 30 s. A list can wait another 60 s for its
   * slot.
   */
  readonly msMax?: number
  /** Maximum size of the decompressed response; default 64 MiB. */
  readonly bytesMax?: number
  /** Concurrency limit that this call counts against; default `call`. */
  readonly share?: CallShare
  readonly signal?: AbortSignal | undefined
}

export type WatchRequest = Pick<KubeRequest, 'path' | 'query' | 'secret' | 'msMax' | 'signal'>

/** A stream of bytes with one reader. The reader must close it. */
export interface KubeStream {
  /** Returns the next bytes, or undefined at the end of the stream. @throws when the connection breaks */
  read(): Promise<Uint8Array | undefined>
  /** Closes the stream. Idempotent; never rejects. */
  close(): Promise<void>
}

/** Returns the query string with its question mark, or '' if there are no parameters. */
export function queryOf(query: KubeRequest['query']): string {
  if (!query || Object.keys(query).length === 0) return ''
  return `?${new URLSearchParams(query).toString()}`
}

/** Reads a stream to its end as text. If it is longer than `bytesMax`, closes it and returns undefined. @throws errors of `read` */
export async function readBounded(stream: KubeStream, bytesMax: number): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const chunk = await stream.read()
    if (chunk === undefined) return Buffer.concat(chunks).toString('utf8')
    bytes += chunk.length
    if (bytes > bytesMax) {
      await stream.close()
      return undefined
    }
    chunks.push(chunk)
  }
}
