# SPDX-License-Identifier: GPL-2.0-or-later
"""What zmeld's surveys of many machines say together.

`docs/survey.md` is what is read, `docs/fleet.md` what is made of it. Modules point one
way: `schema`, `estimate`, `units` and `words` know nobody; `places` and `catalogue` say
which surveys count, `unite` makes few files of many; `expressions` are the questions and
`engines` who answers them; `analysis` makes results of the answers (`melding` knows what errs
together), `advice` configurations, `documents` a document, and `render_*` write it. Libraries
print nothing: `cli` does.
"""

__version__ = "0.1.0"
