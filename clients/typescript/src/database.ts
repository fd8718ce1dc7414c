/** Values of a statement, for `$1` and so on. */
export type Values = readonly (string | number | null)[]

type Rows = readonly Readonly<Record<string, unknown>>[]

/** Open transaction. */
export interface Transaction<Tx> {
  /** The driver's own object, for the statements of `work`. */
  readonly tx: Tx
  query(text: string, values: Values): Promise<Rows>
}

/**
 * Begins a transaction, commits it when `run` resolves, and rolls it back when `run` rejects. Rejects with the exception of `run`. If the
 * commit is not answered within `commitMs`, the connection should be closed and not returned to its pool.
 */
export type Begin<Tx> = <T>(
  run: (transaction: Transaction<Tx>) => Promise<T>,
  commitMs?: number,
) => Promise<T>

const pruneEveryMs = 60_000
const pruneRowsMax = 1000
const pruneText = `DELETE FROM latchkey_outcomes
WHERE (scope, key) IN (
  SELECT scope, key FROM latchkey_outcomes
  WHERE expires_at <= clock_timestamp()
  ORDER BY expires_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)`

/** Postgres database with the table of `latchkey-outcomes.sql`. */
export class Database<Tx> {
  readonly transaction: Begin<Tx>
  #prunedAtMs = Number.NEGATIVE_INFINITY

  constructor(begin: Begin<Tx>) {
    this.transaction = begin
  }

  /** Deletes up to 1 000 expired rows, at most once a minute, in the background. Failures are ignored: a later call deletes the rows. */
  prune(): void {
    if (performance.now() - this.#prunedAtMs < pruneEveryMs) return
    this.#prunedAtMs = performance.now()
    this.transaction(({ query }) => query(pruneText, [pruneRowsMax])).catch(() => undefined)
  }
}

/** The part of a client of `pg` that is used. */
export interface PgClient {
  // oxlint-disable-next-line typescript/no-explicit-any -- rows are typed by the caller
  query(text: string, values?: any[]): Promise<{ rows: any[] }>
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
  release(error?: Error): void
}

/** Adapts a pool of `pg`. `work` gets the client of the transaction. */
export function pg<Client extends PgClient = PgClient>(pool: {
  connect(): Promise<Client>
}): Database<Client> {
  return new Database(async (run, commitMs) => {
    const client = await pool.connect()
    let broken: Error | undefined
    // Handles an error of the connection between two statements, which would otherwise end the process.
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    const query = async (text: string, values: Values) => (await client.query(text, [...values])).rows as Rows
    try {
      await client.query('BEGIN')
      const result = await run({ tx: client, query })
      await commit(client, commitMs, onError)
      return result
    } catch (error) {
      // Sends no rollback on a broken connection, where it would wait for the previous statement, which is never answered.
      if (!broken) await client.query('ROLLBACK').catch(onError)
      throw error
    } finally {
      client.off('error', onError)
      client.release(broken)
    }
  })
}

/** Waits for a promise, but at most `timeoutMs` after `onBegun` is called. `onLate` receives an exception that is thrown later. */
export function withDeadline(
  timeoutMs: number,
  start: (onBegun: () => void) => Promise<unknown>,
  onLate: (error: Error) => void = () => undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const expire = () => {
      const error = new Error('Latchkey: the database did not answer the commit in time')
      onLate(error)
      reject(error)
    }
    const stop = () => clearTimeout(timer)
    const running = start(() => {
      timer = setTimeout(expire, timeoutMs)
    })
    running.finally(stop).then(() => resolve(), reject)
  })
}

function commit(
  client: PgClient,
  commitMs: number | undefined,
  onLate: (error: Error) => void,
): Promise<unknown> {
  if (commitMs === undefined) return client.query('COMMIT')
  const start = (onBegun: () => void) => {
    onBegun()
    return client.query('COMMIT')
  }
  return withDeadline(commitMs, start, onLate)
}

/** The part of a transaction of postgres.js that is used. */
export interface PostgresJsTransaction {
  unsafe(text: string, values: (string | number | null)[]): PromiseLike<Rows>
}

/** Adapts postgres.js. `work` gets the `sql` of the transaction. */
export function postgresJs<Tx extends PostgresJsTransaction>(sql: {
  begin(options: string, run: (tx: Tx) => Promise<unknown>): Promise<unknown>
}): Database<Tx> {
  return new Database(async <T>(run: (transaction: Transaction<Tx>) => Promise<T>) => {
    let result: { readonly value: T } | undefined
    await sql.begin('', async (tx) => {
      result = { value: await run({ tx, query: async (text, values) => tx.unsafe(text, [...values]) }) }
    })
    return (result as unknown as { readonly value: T }).value
  })
}

/** The part of a transaction of Drizzle that is used. */
export interface DrizzleTransaction<Query> {
  execute(query: Query): PromiseLike<unknown>
}

/** Adapts Drizzle with any driver of Postgres: `drizzle(db, sql)` with `sql` of `drizzle-orm`. `work` gets the transaction of Drizzle. */
export function drizzle<Query, Tx extends DrizzleTransaction<Query>>(
  db: { transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T> },
  sql: (strings: TemplateStringsArray, ...values: unknown[]) => Query,
): Database<Tx> {
  return new Database((run) =>
    db.transaction((tx) => {
      const query = async (text: string, values: Values) => {
        const parts = text.split(/\$\d+/)
        const strings = Object.assign(parts, { raw: parts })
        const named = [...text.matchAll(/\$(\d+)/g)].map(([, number]) => values[Number(number) - 1])
        const result = await tx.execute(sql(strings, ...named))
        return (Array.isArray(result) ? result : (result as { rows: Rows }).rows) as Rows
      }
      return run({ tx, query })
    }),
  )
}
