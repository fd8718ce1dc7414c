import { errorFields } from '../log.ts'
import type { Applied, ApplyContext } from '../reconcile/apply.ts'
import type { SecretSource } from '../source.ts'
import { fenceName, type LeaderContext } from './tenant-context.ts'

const noSecrets: SecretSource = {
  readSecret: () => Promise.resolve({ kind: 'missing' }),
  writeSecret: () => Promise.resolve({ kind: 'taken' }),
}

/** What the leader's transactions are made with: each carries the fence of its leadership. */
export function applyContextOf(context: LeaderContext, secrets: SecretSource = noSecrets): ApplyContext {
  const { pool, keyRing, leadership } = context
  const fence = { name: fenceName, leaseTransitions: leadership.fence }
  return { pool, keyRing, secrets, actor: 'operator', fence }
}

/** A transaction was not committed because of another writer; trying again helps. */
export class OtherWriter extends Error {
  override readonly name = 'OtherWriter'
}

/** @throws OtherWriter when another leader has written, or a concurrent write stood in the way */
export function expectMine(applied: Applied): void {
  if (applied.kind === 'deposed') throw new OtherWriter('fence check failed: a newer leader has written')
  if (applied.kind === 'conflict') throw new OtherWriter('concurrent update of the tenant')
}

/** Has all directories look for changes. Never fails: they find out by themselves, later. */
export async function tellChanged({
  onChanged,
  log,
}: Pick<LeaderContext, 'onChanged' | 'log'>): Promise<void> {
  try {
    await onChanged()
  } catch (error) {
    log.warn(errorFields(error), 'directories could not be told of a change, they will poll')
  }
}
