/** Pool of concurrent calls that a call belongs to. `lease`: Lease renewals only; `list`: lists; `call`: all other calls. */
export type CallShare = 'lease' | 'list' | 'call'

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Default `application/json`. A patch must set its patch type. */
  readonly contentType?: string
  /** Leaves the server's message out of failures, because it may quote a Secret. */
  readonly secret?: boolean
  /** Timeout that includes the wait for a slot; default 30 s. A list can wait another 60 s for its slot. */
  readonly msMax?: number
  /** Maximum bytes of the response after decompression; default 64 MiB. */
  readonly bytesMax?: number
  readonly share?: CallShare
  readonly signal?: AbortSignal | undefined
}

export type WatchRequest = Pick<KubeRequest, 'path' | 'query' | 'secret' | 'msMax' | 'signal'>

/** Body of a response as a stream. It has one reader, which must close it. */
export interface KubeStream {
  /** Returns undefined at the end of the stream. @throws when the connection breaks */
  read(): Promise<Uint8Array | undefined>
  /** Idempotent; never rejects. */
  close(): Promise<void>
}

/** Returns the query with its question mark; '' if there are no parameters. */
export function queryOf(query: KubeRequest['query']): string {
  if (!query || Object.keys(query).length === 0) return ''
  return `?${new URLSearchParams(query).toString()}`
}

/** Reads a stream as text. If it is longer than `bytesMax`, closes it and returns undefined. @throws errors of `read` */
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
