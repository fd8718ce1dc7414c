import { type Claim, type Committed, commitOnce, forgetRow } from './commit-once.ts'
import type { Database } from './database.ts'
import type { Latchkey } from './latchkey.ts'
import { type Address, type Codec, type OnceOptions, valueCodec, type WorkContext } from './options.ts'
import { nothingHappened, type Outcome, type UnknownCommit } from './outcome.ts'

export {
  type Begin,
  Database,
  type DrizzleTransaction,
  drizzle,
  type PgClient,
  type PostgresJsTransaction,
  pg,
  postgresJs,
  type Transaction,
} from './database.ts'

/** Options of `withTransaction`. `onTakenOver` defaults to `run`, since the table knows whether an earlier attempt was committed. */
export type TransactionOptions<T> = OnceOptions<T> & Claim

/** Outcome of `withTransaction`. A committed result is `ran`, even if its record is not saved. */
export type TransactionOutcome<T> = Exclude<Outcome<T>, { readonly kind: 'unknown' }> | UnknownCommit

/** Ends `work` of `once` without a value. */
class Ended extends Error {}

/**
 * Runs `work` in a transaction that also writes its result, so its changes in this database are committed exactly once per scope and key.
 * Effects outside the database are not covered. The table is defined in `latchkey-outcomes.sql`.
 * @throws what `once` throws. After an exception of `work`, its transaction is rolled back and the lock released.
 */
export async function withTransaction<Tx, T>(
  latchkey: Latchkey,
  database: Database<Tx>,
  options: TransactionOptions<T>,
  work: (tx: Tx, context: WorkContext) => T | Promise<T>,
): Promise<TransactionOutcome<T>> {
  const codec = valueCodec as Codec<T>
  let committed: Committed<T> | undefined
  let failure: { readonly error: unknown } | undefined
  try {
    const { onTakenOver = 'run' } = options
    const outcome = await latchkey.onceAs(codec, { ...options, onTakenOver }, async (context) => {
      try {
        committed = await commitOnce(database, options, codec, (tx) => work(tx, context))
      } catch (error) {
        failure = { error }
        throw nothingHappened(error)
      }
      if (committed.kind === 'ran' || committed.kind === 'found') return committed.value
      const ended = new Ended('Latchkey: the transaction has no result')
      throw committed.kind === 'unknown_commit' ? ended : nothingHappened(ended)
    })
    if (committed) return outcomeOf(committed, outcome)
    // Returns a value that `onTakenOver` recovered even if saving its record failed, since the value is known.
    return outcome.kind === 'unknown' ? { kind: 'replayed', value: outcome.value } : outcome
  } catch (error) {
    if (error instanceof Ended && committed) return outcomeOf(committed)
    throw failure ? failure.error : error
  }
}

/** Returns the committed outcome, even if its record is not saved. */
function outcomeOf<T>(committed: Committed<T>, outcome?: Outcome<T>): TransactionOutcome<T> {
  switch (committed.kind) {
    case 'ran':
      return { kind: 'ran', value: committed.value, guarded: outcome?.kind !== 'ran' || outcome.guarded }
    case 'found':
      return { kind: 'replayed', value: committed.value }
    case 'reused_key':
      return { kind: 'reused_key' }
    case 'busy':
      return { kind: 'busy', retryAfterMs: 1000 }
    case 'unknown_commit':
      return committed
    default:
      return committed satisfies never
  }
}

/** Deletes the row of an operation and then its record, so that it can run again. Repeating it is safe. */
export async function forget<Tx>(
  latchkey: Latchkey,
  database: Database<Tx>,
  address: Address,
): Promise<void> {
  await forgetRow(database, address)
  await latchkey.removeRecord(address)
}
