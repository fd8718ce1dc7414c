import { isObject } from '../normalize.ts'
import { compileDeclaration } from './compile.ts'
import type { Declaration } from './schema.ts'
import { callOf, outcomeOf } from './vectors.ts'

/** Payload of a recorded call, as a start for simulated ones. Without headers, and without what a vector's secret is needed for. */
export interface DeclaredSample {
  readonly rawType: string
  readonly type: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** A declaration as it is stored and compiled: with samples in place of its vectors. */
export interface RunningDeclaration extends Declaration {
  readonly samples?: readonly DeclaredSample[]
}

const samplesMax = 20
/** Maximum characters of a sample, and of all samples of a declaration. */
const sampleCharsMax = 16_384
const allCharsMax = 65_536

/** Returns the payloads of a declaration's vectors that make an event, one per normalized type. */
export function samplesOf(declaration: Declaration): readonly DeclaredSample[] {
  const { vectors = [] } = declaration
  if (vectors.length === 0) return []
  const provider = compileDeclaration(declaration)
  const samples = new Map<string, DeclaredSample>()
  let chars = 0
  for (const vector of vectors) {
    const outcome = outcomeOf(provider, callOf(vector), vector)
    if (outcome.kind !== 'event' || samples.has(outcome.type) || samples.size === samplesMax) continue
    const { rawType, type, payload: text } = outcome
    chars += text.length
    if (text.length > sampleCharsMax || chars > allCharsMax) continue
    const payload: unknown = JSON.parse(text)
    if (isObject(payload)) samples.set(type, { rawType, type, payload })
  }
  return [...samples.values()]
}
