import type { Json, StoredRecord } from './outcome.ts'

/** Function that sends an HTTP request, such as the global `fetch`. Must honour `init.signal`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Receives events for debugging: a constant text and fields. Never gets an API key, an idempotency key, a lock token or a body. */
export type Debug = (event: string, fields: Readonly<Record<string, unknown>>) => void

/** Used part of a tracer of the OpenTelemetry API. */
export interface Tracer {
  startSpan(
    name: string,
    options?: { attributes?: Record<string, string | number | boolean> },
  ): {
    setAttribute(name: string, value: string | number | boolean): unknown
    setStatus(status: { code: number }): unknown
    end(): void
  }
}

/** Options of `new Latchkey`. */
export interface LatchkeyOptions {
  /** Address of the service, such as `https://latchkey.example.com`, with a path prefix if it has one. */
  readonly url: string
  /** API key of scope `records`. */
  readonly apiKey: string
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined
  readonly debug?: Debug | undefined
  /** Gets one span `latchkey.once` for each call of `once`, with its scope, outcome and acquisition attempts. */
  readonly tracer?: Tracer | undefined
  /** Keeps completed records in this process, so that a duplicate needs no call. Default: no cache. */
  readonly cache?:
    | {
        /** Maximum number of records. The least recently used record is removed first. */
        readonly entriesMax: number
        /** Maximum age of a record in milliseconds. A record that another process removed can be replayed until this age. */
        readonly maxAgeMs: number
      }
    | undefined
}

/** Scope and key of an operation. */
export interface Address {
  /** Namespace of the key, 1 to 128 characters. */
  readonly scope: string
  /** 1 to 255 characters. */
  readonly key: string
}

/** Context of `work`. */
export interface WorkContext {
  /** Aborts when the lock is lost, when its time has passed without an extension, or with the caller's signal. */
  readonly signal: AbortSignal
  /** Fencing token: grows with every lock of the tenant, so that a store can refuse a late writer. Undefined if `work` runs without a lock. */
  readonly fence: number | undefined
  /** True if an earlier caller's lock ended without a result, so the effect may have happened. */
  readonly takenOver: boolean
  /** Identifies this call of `once`. */
  readonly attemptId: string
}

/** Decision on an operation whose earlier caller ended without a result. */
export type Recovery<T> = 'run' | 'refuse' | { readonly recovered: T }

/** Options of `once`. */
export interface OnceOptions<T> extends Address {
  /** Hash of the caller's input, 1 to 255 characters. The same key with another fingerprint gives `reused_key`. */
  readonly fingerprint?: string | undefined
  /** Seconds that the result is kept. Default: one day, the default of the service. */
  readonly ttlSeconds?: number | undefined
  /** Seconds that the lock is held without an extension. It is extended after each third of this time. Default 60, at most 900. */
  readonly lockSeconds?: number | undefined
  /** Milliseconds to wait while another caller holds the lock. Default 10 000; 0 returns `busy` at once. */
  readonly waitMs?: number | undefined
  /** Milliseconds to retry an acquisition without a usable answer. Default 10 000; 0: no retry. */
  readonly acquireMs?: number | undefined
  /** Milliseconds to retry a save without a usable answer. Default 30 000; 0: no retry. */
  readonly saveMs?: number | undefined
  /**
   * Before `work`, an abort makes `once` reject with its reason. During `work`, it aborts the signal of `work`. After `work`, it ends the
   * retries of the save, and the outcome is `unknown`.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Action if an earlier caller's lock ended without a result. Default `refuse`: the outcome is `taken_over`. A callback can look for the
   * earlier effect.
   */
  readonly onTakenOver?:
    | 'run'
    | 'refuse'
    | ((context: WorkContext) => Recovery<T> | Promise<Recovery<T>>)
    | undefined
  /**
   * Action if no lock can be acquired. Default `refuse`: the outcome is `unavailable`. `run` runs `work` without a lock, and does not save its
   * result.
   */
  readonly onUnavailable?: 'run' | 'refuse' | undefined
}

/** Function that `once` runs. */
export type Work<T> = (context: WorkContext) => T | Promise<T>

/** Converts the result of `work` to a record, and a record of an earlier run to a result. */
export interface Codec<T> {
  /** An exception counts as an exception of `work`. */
  toRecord(value: T): StoredRecord
  fromRecord(record: StoredRecord): T
}

/** Codec of `once`: the value is the body. A value that is not JSON throws when the record is sent. */
export const valueCodec: Codec<unknown> = {
  toRecord: (value) => ({ status: 200, headers: {}, body: (value === undefined ? null : value) as Json }),
  fromRecord: ({ body }) => body,
}
