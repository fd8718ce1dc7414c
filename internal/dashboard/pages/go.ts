import { forTenant, goTo, link, type PageRow } from '../page.ts'
import { refOf } from '../serve-row.tsx'

/** Leads to a page with the tenant that somebody typed; to the list of tenants, searched, when it is none. */
export const goRow: PageRow = {
  ...{ method: 'GET', path: '/go', section: 'tenants' },
  async show({ backoffice, actor, query }) {
    const { find, to: path = '/' } = query
    if (find === undefined) return goTo(path)
    const found = await backoffice.tenants.find(actor, refOf(find))
    if (found.kind === 'notFound' || found.kind === 'invalid') return goTo(link('/tenants', { search: find }))
    if (found.kind !== 'ok') return found
    const { id } = found.value
    return goTo(/^\/tenants([/?]|$)/.test(path) ? `/tenants/${id}` : forTenant(path, id))
  },
}
