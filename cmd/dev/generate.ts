import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { matrixPath, withMatrix } from '#clients/conformance/matrix.ts'
import { apiTypesPath, apiTypesText } from './api-types.ts'
import { cliContractFiles } from './cli-contract.ts'
import { cliPagePath, withCliHelp } from './cli-help.ts'
import { clientEventsPath, clientEventsText, clientSamplesPath, clientSamplesText } from './client-events.ts'
import { configPagePath, configPageText } from './config-page.ts'
import { eventTypesPath, eventTypesText } from './event-types.ts'
import { noticesPath, noticesText } from './notices.ts'
import { packsPath, packsText } from './packs.ts'
import { providerCrdPath, providerCrdText } from './provider-crd.ts'
import { pythonFiles } from './python-types.ts'
import { apiPages } from './reference/api-pages.ts'
import { chartPagePath, chartPageText } from './reference/chart-page.ts'
import { crdPagePath, crdPageText } from './reference/crd-page.ts'
import { errorPages } from './reference/error-pages.ts'
import { metricsPagePath, metricsPageText } from './reference/metrics-page.ts'
import { providerPages } from './reference/provider-pages.ts'
import { refusedPagePath, refusedPageText } from './reference/refused-page.ts'

const root = resolve(import.meta.dir, '../..')

/** Returns the text of each committed file that is generated from code, by its path from the repository root. */
export async function generatedFiles(): Promise<ReadonlyMap<string, string>> {
  const crds = readdirSync(resolve(root, 'crds')).map((name) => {
    const isGenerated = providerCrdPath.endsWith(name)
    const text = isGenerated ? providerCrdText() : readFileSync(resolve(root, 'crds', name), 'utf8')
    return [`charts/latchkey/files/crds/${name}`, kept(text)] as const
  })
  return new Map([
    [providerCrdPath, providerCrdText()],
    ...crds,
    [configPagePath, configPageText()],
    ...apiPages(),
    ...errorPages(),
    [crdPagePath, crdPageText(readdirSync(resolve(root, 'crds')).map((name) => `crds/${name}`))],
    [chartPagePath, chartPageText()],
    [metricsPagePath, metricsPageText()],
    [refusedPagePath, refusedPageText()],
    [apiTypesPath, await apiTypesText()],
    [eventTypesPath, eventTypesText()],
    [matrixPath, withMatrix(readFileSync(resolve(root, matrixPath), 'utf8'))],
    [noticesPath, await noticesText()],
    [packsPath, packsText()],
    [clientEventsPath, clientEventsText()],
    [clientSamplesPath, clientSamplesText()],
    ...(await cliContractFiles()),
    [cliPagePath, await withCliHelp(readFileSync(resolve(root, cliPagePath), 'utf8'))],
    ...providerPages(),
    ...pythonFiles(),
  ])
}

/** Adds the annotation that makes Helm keep the CRD, and with it all Tenants, when the release is uninstalled. */
function kept(text: string): string {
  const keep = '  annotations:\n    helm.sh/resource-policy: keep\n'
  return text.replace(/(?<=^kind: CustomResourceDefinition\nmetadata:\n  name: .*\n)/m, keep)
}

if (import.meta.main) {
  for (const [path, text] of await generatedFiles()) {
    mkdirSync(dirname(resolve(root, path)), { recursive: true })
    writeFileSync(resolve(root, path), text)
    console.log(path)
  }
}
