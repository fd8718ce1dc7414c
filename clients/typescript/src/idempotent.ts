import { hexOf, sha256 } from './bytes.ts'
import { canonicalJson } from './fingerprint.ts'
import type { Latchkey } from './latchkey.ts'
import type { OnceOptions } from './options.ts'
import { unwrap } from './outcome.ts'

/** Options of `idempotent`. */
export interface IdempotentOptions<A extends unknown[], T>
  extends Omit<OnceOptions<T>, 'scope' | 'key' | 'fingerprint' | 'signal'> {
  /** Default: the name of the function. Set it to the old name if the function is renamed, since its keys would otherwise be new. */
  readonly scope?: string
  /** Returns the key of a call. */
  key(...args: A): string
  /** Returns the fingerprint of a call. Default: the SHA-256 of the arguments as JSON with sorted members. */
  fingerprint?(...args: A): string | undefined
}

/**
 * Returns a function that runs at most once per key, and returns its saved result for duplicate calls. A function that needs the signal or the
 * fence of its lock calls `once` instead.
 * @throws TypeError if there is neither a scope nor a name of the function. The returned function throws what the function throws, and
 *   `LatchkeyOutcomeError` for an outcome without a known result.
 */
export function idempotent<This, A extends unknown[], T>(
  latchkey: Latchkey,
  { key, fingerprint, scope, ...options }: IdempotentOptions<A, T>,
  work: (this: This, ...args: A) => T | Promise<T>,
): (this: This, ...args: A) => Promise<T> {
  const named = scope ?? work.name
  if (named === '') throw new TypeError('Latchkey: a function without a name needs the option `scope`')
  return async function (...args) {
    const own = fingerprint ? fingerprint(...args) : hexOf(await sha256(canonicalJson(args)))
    const address = { scope: named, key: key(...args), fingerprint: own }
    return unwrap(await latchkey.once<T>({ ...options, ...address }, () => work.apply(this, args)))
  }
}
