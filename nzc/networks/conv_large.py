"""Conv-Large of Miyato et al. 2017: Conv-Small with 3.1 million parameters, for a VAT student on a GPU."""

from functools import partial

from nzc.networks import conv_small

build = partial(conv_small.build, widths=(128, 256, 512, 256, 128))
