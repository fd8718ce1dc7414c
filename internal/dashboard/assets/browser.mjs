// Progressive enhancement: the browser's time zone, copy buttons, chart values on hover and live updates that keep
// rows in place. The block keeps its variables out of the scope of
// the other bundled scripts.
{
  // The server shows and reads all times in the zone of this cookie, from the next page on.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  if (zone && !document.cookie.split('; ').includes(`latchkey-zone=${zone}`)) {
    const isSecure = location.protocol === 'https:' ? '; Secure' : ''
    document.cookie = `latchkey-zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${isSecure}`
  }
  const pointTime = new Intl.DateTimeFormat('en-GB', {
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    timeZone: document.documentElement.dataset.zone,
  })

  const enableCopying = () => {
    for (const button of document.querySelectorAll('button[data-copy]')) button.hidden = !navigator.clipboard
  }

  const copy = async (button) => {
    const said = button.querySelector('[data-said]')
    try {
      await navigator.clipboard.writeText(button.dataset.copy)
      said.textContent = 'Copied'
      button.classList.add('is-copied')
    } catch {
      said.textContent = 'Select and copy it'
    }
    setTimeout(() => {
      said.textContent = button.title
      button.classList.remove('is-copied')
    }, 1500)
  }

  const readOut = (event) => {
    const drawing = event.target.closest?.('svg[data-points]')
    for (const band of document.querySelectorAll('[data-band]:not([width="0"])'))
      if (band.ownerSVGElement !== drawing) rest(band.ownerSVGElement)
    if (!drawing) return
    const points = drawing.dataset.points.split('\n')
    const { left, width } = drawing.getBoundingClientRect()
    const nth = Math.max(
      0,
      Math.min(points.length - 1, Math.floor(((event.clientX - left) / width) * points.length)),
    )
    const band = drawing.querySelector('[data-band]')
    const x = String((1000 * nth) / points.length)
    const isShown = band.getAttribute('x') === x && band.getAttribute('width') !== '0'
    band.setAttribute('x', x)
    band.setAttribute('width', String(1000 / points.length))
    const output = drawing.closest('figure').querySelector('[data-readout]')
    output.dataset.rest ??= output.textContent
    const at = new Date(Number(drawing.dataset.from) + nth * Number(drawing.dataset.step))
    output.textContent = `${pointTime.format(at)}  ·  ${points[nth]}`
    const link = drawing.querySelector('[data-drill]')
    // The first touch shows the values of a point; the second opens its list.
    if (link && (event.pointerType !== 'touch' || isShown)) aim(link, at, Number(drawing.dataset.step))
    else link?.removeAttribute('href')
  }

  /** Makes a link lead to the list of one point of its chart. */
  const aim = (link, from, step) => {
    const address = new URL(link.dataset.drill, location.href)
    address.searchParams.set('from', seconds(from))
    address.searchParams.set('to', seconds(new Date(from.getTime() + step)))
    link.setAttribute('href', address.pathname + address.search)
    link.setAttribute('tabindex', '-1')
  }
  const seconds = (at) => `${at.toISOString().slice(0, 19)}Z`

  const rest = (drawing) => {
    drawing.querySelector('[data-band]').setAttribute('width', '0')
    const output = drawing.closest('figure').querySelector('[data-readout]')
    drawing.querySelector('[data-drill]')?.removeAttribute('href')
    if (output.dataset.rest !== undefined) output.textContent = output.dataset.rest
    delete output.dataset.rest
  }

  /** Dims a row that does not match the filters any more, and replaces its state, which may be past. */
  const markGone = (row) => {
    row.classList.add('is-gone')
    const badge = row.querySelector('td .badge')
    if (!badge) return
    badge.className = 'badge is-quiet'
    badge.textContent = 'No longer matches'
  }

  /** Gives an update of a table the order of the rows that are shown. Returns the number of rows that it holds back. */
  const holdRows = (shown, update, isWhole) => {
    const fresh = new Map([...update.tBodies[0].rows].map((row) => [row.id, row]))
    const news = [...fresh.keys()].filter((id) => document.getElementById(id) === null)
    const lastKnown = [...shown.tBodies[0].rows].findLastIndex(({ id }) => fresh.has(id))
    const rows = [...shown.tBodies[0].rows].map((row, nth) => {
      const known = fresh.get(row.id)
      if (known) return known
      const copied = row.cloneNode(true)
      // A row does not match the filters any more if the update is the whole list, or if a later row is still listed. Others may only
      // have made room for new rows.
      if (isWhole || nth < lastKnown) markGone(copied)
      return copied
    })
    update.tBodies[0].replaceChildren(...rows)
    return news.length
  }

  /** Gives the checkboxes of an update the state of those that are shown, which the user may have changed. */
  const holdChecks = (fragment) => {
    for (const update of fragment.querySelectorAll('input[type=checkbox][form]')) {
      const shown = document.querySelector(
        `input[form="${update.getAttribute('form')}"][name="${update.name}"]`,
      )
      if (shown) update.toggleAttribute('checked', shown.checked)
    }
  }

  const holdTables = ({ detail: { tasks } }) => {
    for (const { fragment } of tasks) {
      holdChecks(fragment)
      for (const update of fragment.querySelectorAll('table[data-stable]')) {
        const shown = document.getElementById(update.id)
        const waits = update.dataset.stable === 'wait'
        if (!shown || !(waits || shown.matches(':hover, :focus-within'))) continue
        const isWhole = waits && !fragment.querySelector('.pager [rel=next]')
        const news = holdRows(shown, update, isWhole)
        if (!waits) continue
        // The next page continues after the rows that are shown.
        const pager = document.querySelector('.pager')
        const nextPager = fragment.querySelector('.pager')
        if (pager && nextPager) nextPager.replaceWith(pager.cloneNode(true))
        else nextPager?.remove()
        const link = document.querySelector('[data-news]')
        link.hidden = news === 0
        if (news > 0)
          link.textContent = `${news} new ${news === 1 ? link.dataset.news.replace(/s$/, '') : link.dataset.news}`
      }
    }
  }

  /** Titles of notices that wait, by the part of the page in which they are new. */
  const waitingNotices = new Map()

  /**
   * Keeps notices in place, so that nothing moves under the pointer or the focus: one that has ended stays and is marked, and new ones are
   * named in a bar that covers no place of the page's flow.
   */
  const holdNotices = ({ detail: { tasks } }) => {
    for (const { fragment } of tasks)
      for (const update of fragment.querySelectorAll('[data-hold]')) {
        const shown = document.getElementById(update.id)
        if (!shown) continue
        const fresh = new Map(
          [...update.querySelectorAll('[data-notice]')].map((notice) => [notice.id, notice]),
        )
        const copied = shown.cloneNode(true)
        let isChanged = false
        for (const notice of copied.querySelectorAll('[data-notice]')) {
          const known = fresh.get(notice.id)
          fresh.delete(notice.id)
          if (known) notice.replaceWith(known)
          else notice.classList.add('is-ended')
          isChanged ||= !known
        }
        // The message about the last action says what was true before this change.
        if (isChanged || fresh.size > 0) copied.querySelector('#flash')?.classList.add('is-ended')
        update.replaceChildren(...copied.childNodes)
        waitingNotices.set(
          update.id,
          [...fresh.values()].map((notice) => notice.dataset.notice),
        )
        showNews()
      }
  }

  const showNews = () => {
    const titles = [...waitingNotices.values()].flat()
    const bar = document.querySelector('[data-news-bar] > p')
    bar.hidden = titles.length === 0
    bar.querySelector('span').textContent = titles.join('; ')
    bar.querySelector('a').href = document.getElementById('blockers').getAttribute('hx-get')
  }

  // What is under the pointer or has the focus keeps its place on the screen while a refresh changes the height of what is above it. The
  // styles turn off the anchoring of the browser, which does nothing at the top of a page.
  const main = document.querySelector('#main')
  const controls = 'a, button, input, select, textarea, summary, tr, figure'
  let pointer
  let held
  const isSeen = ({ top, bottom }) => bottom > 0 && top < innerHeight
  const findHeld = () => {
    const pointed = pointer && document.elementFromPoint(pointer.x, pointer.y)?.closest(controls)
    const focused = document.activeElement?.closest(controls)
    const first =
      scrollY > 0 ? document.elementFromPoint(innerWidth - 64, 64)?.closest(`${controls}, section, p`) : null
    return [pointed, focused, first].find(
      (element) => element && main?.contains(element) && isSeen(element.getBoundingClientRect()),
    )
  }
  const holdPlace = () => {
    const element = findHeld()
    held = element && { element, top: element.getBoundingClientRect().top }
  }
  const shiftOf = ({ element, top }) => element.getBoundingClientRect().top - top
  const keepPlace = () => {
    if (!held?.element.isConnected) return
    scrollBy({ top: shiftOf(held), behavior: 'instant' })
    const missing = shiftOf(held)
    // A short page becomes as long as it must be to scroll.
    if (missing > 1) {
      main.style.minHeight = `${main.offsetHeight + missing}px`
      scrollBy({ top: missing, behavior: 'instant' })
    }
    held = undefined
  }
  const point = ({ clientX, clientY, pointerType }) => {
    pointer = pointerType === 'touch' ? undefined : { x: clientX, y: clientY }
  }
  document.addEventListener('pointermove', point)
  document.documentElement.addEventListener('pointerleave', () => {
    pointer = undefined
  })

  const paused = new Set()
  const pause = (button) => {
    const { pause: id } = button.dataset
    if (!paused.delete(id)) paused.add(id)
    button.textContent = paused.has(id) ? 'Resume updates' : 'Pause updates'
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[data-copy], button[data-pause]')
    if (button?.dataset.copy) void copy(button)
    else if (button) pause(button)
  })
  document.addEventListener('htmx:before:swap', (event) => {
    holdPlace()
    holdTables(event)
    holdNotices(event)
  })
  document.addEventListener('htmx:after:swap', keepPlace)
  document.addEventListener('htmx:before:request', (event) => {
    if (paused.has(event.target.id)) event.preventDefault()
  })
  for (const button of document.querySelectorAll('button[data-pause]')) button.hidden = false
  // A form has either a choice of time or exact times; the server prefers exact ones.
  const keepOneTime = ({ target }) => {
    const { within, from, to } = target.form?.elements ?? {}
    if (!within || target.value === '') return
    if (target === within) {
      from.value = ''
      to.value = ''
    } else if (target === from || target === to) within.value = ''
  }
  document.addEventListener('change', keepOneTime)
  document.addEventListener('change', () => {
    for (const button of document.querySelectorAll('button[data-selection]')) {
      const count = document.querySelectorAll(`input[form="${button.dataset.selection}"]:checked`).length
      button.textContent =
        count === 0 ? 'Replay selected events' : `Replay ${count} ${count === 1 ? 'event' : 'events'}`
    }
  })
  document.addEventListener('pointermove', readOut)
  document.addEventListener('pointerdown', readOut)

  enableCopying()

  // The dev server prints the sign-in address with its token in the fragment, because browsers do not send fragments to servers.
  const token = document.querySelector('input[name=token]')
  if (token && location.hash.startsWith('#token=')) {
    token.value = decodeURIComponent(location.hash.slice(7))
    history.replaceState(null, '', location.pathname + location.search)
  }

  document.addEventListener('htmx:after:swap', enableCopying)
  // Status 401 means that the session has ended. Reloading the page leads to the sign-in page.
  document.addEventListener('htmx:sse:error', (event) => {
    if (event.detail?.status === 401) location.reload()
  })
}
