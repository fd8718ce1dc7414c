import { residentBytes } from '../processes.ts'
import { callOfMany, declaredCallOf, manyManifests, manyProviders } from './calls.ts'
import type { Stack } from './stack.ts'

const tenants = 1_000
const passes = 2

/**
 * Measures the memory that many Providers and tenants cost an API: its resident megabytes after two calls of each tenant, minus those of an
 * API with a few tenants after as many calls. @throws if a call is not answered 200
 */
export async function measureMemory(stack: Stack): Promise<number> {
  await stack.stopForwarder()
  const few = await residentMb(stack, [], declaredCallOf)
  const many = await residentMb(stack, manyManifests(tenants), callOfMany)
  console.log(
    `API resident: ${few.toFixed(0)} MB, with ${manyProviders + 1} Providers and ${tenants} tenants ${many.toFixed(0)} MB`,
  )
  return many - few
}

async function residentMb(
  stack: Stack,
  files: readonly string[],
  callOf: (n: number) => ReturnType<typeof callOfMany>,
): Promise<number> {
  const api = await stack.startApiWith(files)
  try {
    for (let n = 0; n < passes * tenants; n += 1) {
      const { path, body, headers } = callOf(n % tenants)
      const answer = await fetch(`http://127.0.0.1:${api.port}${path}`, { method: 'POST', body, headers })
      if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
    }
    return (await residentBytes(api.pid)) / 1024 / 1024
  } finally {
    await api.stop()
  }
}
